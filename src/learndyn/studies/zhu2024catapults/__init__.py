"""Feature learning of catapult dynamics (chapter 4 and appendix C)."""
