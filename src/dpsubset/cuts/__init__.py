"""Cuts: lower bounds on the scores of a region of supports, one kind for search and sampling."""
