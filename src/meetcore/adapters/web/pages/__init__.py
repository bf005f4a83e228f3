"""The pages of the dashboard, one module for each item of the menu."""
