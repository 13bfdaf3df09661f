"""Configuration: TOML files and environment to frozen settings."""
