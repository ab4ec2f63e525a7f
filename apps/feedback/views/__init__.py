"""Where people judge: the page with one decision at a time, what it sends, and stars given wherever a reply is seen."""
