"""What every face of the agent uses: a run opened by names, and the gate's questions as events of the run."""
