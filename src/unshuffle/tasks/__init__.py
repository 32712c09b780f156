"""Problems that people have: data in, order out."""
