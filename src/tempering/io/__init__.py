"""Files: values as bytes, records with checksums, and the folder of a checkpoint."""
