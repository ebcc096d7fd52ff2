from hypothesis import settings

# A deadline per example measures how busy the machine is, not the code.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
