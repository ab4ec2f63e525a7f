"""One registry of the parts that others may add, such as scorers, rating forms and environments.

    kinds      what a kind of plugin is, and why a plugin is refused
    contract   checks that all kinds share: description, version, options, calls
    parts      kinds whose plugins are one function with options
    sources    where plugins are found: a folder, and entry points of installed packages
    registry   all parts by kind and name, built-in ones among them

Each kind registers itself where its contract is (rftweb/apps.py lists the modules); nothing here
knows them. docs/plugins.md says how to write a plugin.
"""
