"""Linear students on power-law spectra: scaling in time and in the number of features."""
