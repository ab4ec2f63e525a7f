"""Adding and deleting of models for pages and REST, and previews of chat templates."""
