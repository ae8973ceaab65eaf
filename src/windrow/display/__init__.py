"""How results, queries and plans show themselves: as HTML, as charts, and live."""
