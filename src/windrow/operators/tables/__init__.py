"""What operators share: SQL over tables, and comparing, hashing and sorting rows."""
