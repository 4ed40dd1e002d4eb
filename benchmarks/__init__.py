"""Side-by-side measurements. Ratios of one run on one machine carry over to others; seconds do not."""
