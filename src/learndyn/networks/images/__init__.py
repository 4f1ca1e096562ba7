"""Networks of images: convolutions and transformers."""
