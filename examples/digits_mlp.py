"""Train a classifier of handwritten digits with a compiled model: real data, a train/test split, changing batch sizes.

pip install scikit-learn && python examples/digits_mlp.py
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tracejit as tj
from tracejit import nn

EPOCHS, BATCH = 25, 64


def main() -> None:
    """Train, then test."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    split = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = map(tj.from_numpy, split)

    tj.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = tj.compile(network)  # shares its parameters with `network`
    criterion = nn.CrossEntropyLoss()
    optimizer = tj.optim.AdamW(network.parameters(), lr=3e-3)
    schedule = tj.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)

    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for epoch in range(EPOCHS):
        order = rng.permutation(len(train_x))
        for low in range(0, len(order), BATCH):  # the last batch is smaller: recorded, not compiled
            batch = tj.from_numpy(order[low : low + BATCH])
            loss = criterion(model(train_x[batch]), train_y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}")

    model.eval()
    with tj.no_grad():
        predicted = model(test_x).argmax(dim=1)
        eager = network(test_x).argmax(dim=1)
    accuracy = (predicted == test_y).to(tj.float32).mean().item()
    print(f"test accuracy {accuracy:.4f}, trained in {time.perf_counter() - start:.1f} s")
    assert accuracy >= 0.96
    assert predicted.tolist() == eager.tolist()


if __name__ == "__main__":
    main()
