"""Where people and programs come in. Only the faces read the environment, arguments and the clock."""
