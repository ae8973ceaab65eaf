"""What the command line shows and does: rendering, scripts, the prompt, the demo."""
