"""Operations of a recorded run that come again as they came before: what they give is known, and written down later."""
