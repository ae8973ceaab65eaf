"""The work of the command line: tables, scripts, the prompt, the demo, the benchmarks."""
