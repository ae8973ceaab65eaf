"""The data plane, the only package that imports pyspark: ingestion, blocks, kernels, sources, sinks and answers."""
