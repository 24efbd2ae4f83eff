"""Recording a run: what is written down, and what a run does besides computing."""
