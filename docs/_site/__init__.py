"""What the site adds to Sphinx: pages written from the code and from kept results."""
