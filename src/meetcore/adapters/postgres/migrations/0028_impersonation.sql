-- An operator who looks at a customer's dashboard does so in a session of a viewer, and nothing can be changed in it.
ALTER TABLE sessions ADD COLUMN impersonated_by uuid;
ALTER TABLE sessions
    ADD CONSTRAINT sessions_impersonated_by_fkey FOREIGN KEY (impersonated_by) REFERENCES operators NOT VALID,
    ADD CONSTRAINT sessions_impersonated CHECK (impersonated_by IS NULL OR guest_role = 'viewer') NOT VALID;
