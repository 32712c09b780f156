"""Sinkhorn on a GPU, in Triton: ``entries`` and ``whole`` or ``tiled`` kernels, ``launch`` calls them, ``trust`` tries them first."""
