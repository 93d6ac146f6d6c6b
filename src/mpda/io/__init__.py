"""Model files, tables and exports."""
