"""School subjects: letters of multiple choice, quantities with units, chemical formulas and
equations, short answers.
"""
