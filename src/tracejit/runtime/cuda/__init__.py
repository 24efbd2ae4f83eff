"""Programs on NVIDIA GPUs: images of kernels, their launches, and plans of whole graphs."""
