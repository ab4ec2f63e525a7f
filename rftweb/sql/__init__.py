"""The database for people who read it: views of stable names and columns in the schema `desk`, and roles that see nothing else.

`views` says what there is, `making` keeps it in step with migrations, `readers` makes and revokes roles.
"""
