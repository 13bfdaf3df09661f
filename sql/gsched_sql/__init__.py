"""The job-history database: schema, engine, queries. SQLAlchemy lives here only."""
