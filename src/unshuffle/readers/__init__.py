"""What people have on disk, as arrays: pictures, tables, TSPLIB."""
