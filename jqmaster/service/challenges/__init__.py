"""Use cases of challenges: questions to other systems or people, and the callbacks that answer them."""
