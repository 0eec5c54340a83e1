"""The rules of the project as pure functions: values in, values out."""
