"""How the overlaps move: drift, fluctuations, the exact chain, closed forms and integration."""
