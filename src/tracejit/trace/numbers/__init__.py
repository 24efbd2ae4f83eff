"""Numbers that vary from call to call: where they come from, and how they are computed anew."""
