"""SQL access for people: views with stable names in the schema `reporting`, and read-only roles.

`views` defines the views, `making` keeps them in step with migrations, `readers` makes and revokes
the roles, which can see nothing else.
"""
