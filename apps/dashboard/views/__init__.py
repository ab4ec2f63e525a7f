"""Views of the pages.

The docstring of a view begins with who may use it; an object that the user may not see gives 404.
"""
