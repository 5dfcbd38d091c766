"""Jobs in an SQLite file, or in memory."""
