"""Reports: self-contained HTML pages of figures, verdicts and the lines that reproduce them."""
