"""Functions with loops over time, each of x of shape (T, 2, 3): how people write recurrent networks and solvers."""

from __future__ import annotations

import numpy as np

import tracejit as tj


def draw(*shape):
    rng = np.random.default_rng(len(shape) + sum(shape))
    return tj.from_numpy(rng.standard_normal(shape).astype(np.float32))


W, U, V, W3, U3, B3 = (draw(*s) for s in ((3, 4), (4, 4), (4, 3), (12, 3), (12, 4), (12,)))
W4, U4, B4 = draw(16, 3), draw(16, 4), draw(16)
LAYERS = [(draw(4, 4), draw(4, 4) * 0.5) for _ in range(3)]
H = draw(2, 4)


def rnn(x):
    h, outs = H, []
    for t in range(len(x)):
        h = (x[t] @ W + h @ U.T).tanh()
        outs.append(h)
    return tj.stack(outs), h


def last_state_only(x):
    h = H
    for t in range(len(x)):
        h = (x[t] @ W + h @ U.T).tanh()
    return h


def lstm(x):
    h, c, outs = H, H * 0, []
    for t in range(len(x)):
        i, f, o, g = (x[t] @ W4.T + h @ U4.T + B4).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outs.append(h)
    return tj.stack(outs, 1), (h, c)


def gru(x):
    h, outs = tj.zeros(2, 4), []
    for t in range(len(x)):
        a, b = x[t] @ W3.T + B3, h @ U3.T
        r = (a[:, :4] + b[:, :4]).sigmoid()
        z = (a[:, 4:8] + b[:, 4:8]).sigmoid()
        h = (1 - z) * (a[:, 8:] + r * b[:, 8:]).tanh() + z * h
        outs.append(h)
    return tj.cat(outs, 1)


def backward_in_time(x):
    h, outs = H, []
    for t in reversed(range(len(x))):
        h = (x[t] @ W + h @ U).tanh()
        outs.append(h)
    return tj.stack(outs[::-1])


def batch_major(x):
    h, outs, x = H, [], x.transpose(0, 1).contiguous()
    for t in range(x.shape[1]):
        h = (x[:, t] @ W + h @ U).tanh()
        outs.append(h)
    return tj.stack(outs, dim=1)


def unbound(x):
    h, outs = H, []
    for xt in x.unbind(0):
        h = (xt @ W + h @ U).tanh()
        outs.append(h)
    return tj.stack(outs, dim=1)


def chunked(x):
    h, x = H, x.transpose(0, 1).reshape(2, -1)
    for xt in x.chunk(x.shape[1] // 3, 1):
        h = (xt @ W + h @ U).tanh()
    return h


def split_in_pairs(x):
    h = H
    for pair in tj.cat([x, x]).split(2):
        h = (pair.sum(0) @ W + pair[0] @ W + h).tanh()
    return h


def two_layers(x):
    h, g, outs, upper = H, H + 1, [], []
    for t in range(len(x)):
        h = (x[t] @ W.sigmoid() + h @ U.T).tanh()
        outs.append(h)
    for out in outs:
        g = (out @ U.T.sin() + g @ V @ W).tanh()
        upper.append(g)
    return tj.stack(upper), h


def layers_of_one_code(x):
    outs = [z @ W for z in x.unbind(0)]
    for w, u in LAYERS:
        h, news = H, []
        for out in outs:
            h = (out @ w.T + h @ u.T).tanh()
            news.append(h)
        outs = news
    return tj.stack(outs)


def layers_within_time(x):
    states, outs = [H] * 3, []
    for z in (x @ W).unbind(0):
        for i, (w, u) in enumerate(LAYERS):
            states[i] = z = (z @ w.T + states[i] @ u.T).tanh()
        outs.append(z)
    return tj.stack(outs), states


def both_directions(x):
    f = b = H
    forward, backward = [], []
    for t in range(len(x)):
        f = (x[t] @ W + f @ U).tanh()
        forward.append(f)
    for t in reversed(range(len(x))):
        b = (x[t] @ W + b @ U).tanh()
        backward.append(b)
    return tj.cat([tj.stack(forward), tj.stack(backward[::-1])], -1)


def leapfrog(x):
    q, p = x[0], x[1]
    for _ in range(len(x)):
        p = p - 0.05 * q
        q = q + 0.1 * p
        p = p - 0.05 * q
    return q


def trajectory(x):
    q, p = x[0], x[1]
    steps = [q]
    for _ in range(len(x)):
        p = p - 0.05 * q.sin()
        q = q + 0.1 * p
        steps.append(q)
    return tj.stack(steps)


def two_steps_back(x):
    found = [x[0], x[1]]
    for _ in range(len(x)):
        found.append(2 * found[-1] - found[-2] - 0.01 * found[-1].sin())
    return tj.stack(found[2:]), found[-1]


def sum_of_losses(x):
    h, loss = H, 0
    for t in range(len(x)):
        h = (x[t] @ W + h @ U).tanh()
        loss = loss + ((h @ V - x[t]) ** 2).mean()
    return loss


def running_sum(x):
    total, outs = x[0] * 1, []
    for t in range(1, len(x)):
        total = total + x[t].exp() * 0.5
        outs.append(total)
    return tj.stack(outs)


def nothing_carried(x):
    return tj.stack([(x[t] @ W).relu() + x[t].sum() for t in range(len(x))], 2)


def only_the_last_projection(x):
    h = H
    for t in range(len(x)):
        h = (x[t] @ W + h @ U).tanh()
        y = h @ V
    return y


def filled_tensor(x):
    h, outs = H, tj.zeros(len(x), 2, 4)
    for t in range(len(x)):
        h = (x[t] @ W + h @ U).tanh()
        outs[t] = h
    return outs


def filled_columns(x):
    h, outs = H, tj.ones(2, 2 * len(x), 4)
    for t in range(len(x)):
        h = (x[t] @ W + h @ U).tanh()
        outs[:, 2 * t] = h
    return outs, h


def overlapping_windows(x):
    return tj.stack([(x[t : t + 3] * W[:, :3].sum(0)).sum(0).tanh() for t in range(len(x) - 2)])


def strided_windows(x):
    h = 0
    flat = x.reshape(2, -1)
    for t in range(len(x)):
        h = (h + flat[:, t :: len(x)].exp()) * 0.5
    return h


def every_other_step(x):
    h = H
    for t in range(0, len(x), 2):
        h = (h @ U + (x[t] @ W).exp()).tanh()
    return h


def shifted_inputs(x):
    h, outs = H, []
    for xt in [H[:, :3], *x.unbind(0)[:-1]]:
        h = (xt @ W + h @ U).tanh()
        outs.append(h)
    return tj.stack(outs)


def inner_loop(x):
    h, outs = H, []
    for t in range(len(x)):
        h = h + x[t] @ W
        for _ in range(3):
            h = (h @ U).tanh()
        outs.append(h)
    return tj.stack(outs)


def results_read_at_random(x):
    h, outs = H, []
    for t in range(len(x)):
        h = (x[t] @ W + h @ U).tanh()
        outs.append(h)
    return outs[1] + outs[-2], outs[3].sum(), x[2] * 2


def random_order(x):
    h = H
    for t in np.random.default_rng(0).permutation(len(x)).tolist():
        z = x[t].sin() * 0.5 + x[t]
        h = (z @ W + h @ U).tanh().exp().sigmoid()
    return h


#: The programs, and how many loops they have.
PROGRAMS = {
    rnn: 1,
    last_state_only: 1,
    lstm: 1,
    gru: 1,
    backward_in_time: 1,
    batch_major: 1,
    unbound: 1,
    chunked: 1,
    split_in_pairs: 1,
    two_layers: 2,
    layers_of_one_code: 4,
    layers_within_time: 1,
    both_directions: 2,
    leapfrog: 1,
    trajectory: 1,
    two_steps_back: 1,
    sum_of_losses: 1,
    running_sum: 1,
    nothing_carried: 1,
    only_the_last_projection: 1,
    filled_tensor: 1,
    filled_columns: 1,
    overlapping_windows: 1,
    strided_windows: 1,
    every_other_step: 1,
    shifted_inputs: 1,
    inner_loop: 1,
    results_read_at_random: 1,
}
