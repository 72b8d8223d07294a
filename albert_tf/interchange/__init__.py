"""Models of other libraries: read into ours, and written from ours."""
