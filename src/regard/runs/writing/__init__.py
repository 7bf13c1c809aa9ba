"""How a language model goes on: prompts, chat, and the pen that writes."""
