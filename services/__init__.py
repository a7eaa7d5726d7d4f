"""The program without a screen. `run` is the composition root; each folder is one room with a small public face."""
