"""Quadratic models for understanding the catapult dynamics (chapter 3 and appendix B)."""
