"""Worked solutions without a marked answer, as references: the solution, a reply, its reward."""

from typing import Any

BOXES = (
    "To find the total number of apples, we multiply 12 boxes by 10 apples.\n\n"
    "12 boxes * 10 apples = 120 apples\n\nTherefore, there are 120 apples in total."
)
COST = (
    "Since 3 + 4 = 7, and each costs $2, the total cost is 7 * 2 = $14.\nTherefore, Ann pays $14."
)
AREA = (
    "If the perimeter is 24 cm, then each of the 4 sides is 24 / 4 = 6 cm. "
    "So the area is 36 square centimeters."
)
WAYS = (
    "There are 26 letters. The number of ways is $26^2 = 676$. "
    "Therefore, the answer is $\\frac{1}{676}$."
)
NUMBER = "Let's call the number x. According to the problem, 3x = 27.\nTherefore, x = 27 / 3\nx = 9"
SEVERAL = "First add. Then there are 3 red and 4 blue balls in the box of the boy."
BOUNDED = "The ratio of boys to girls is 3:4. So there are more than 20 girls in the class."
NAME = "John has 5 apples and Mary has 7 apples in the basket. Mary has the most apples."
PART = "We have a long solution in which the value is half of 60. So it is half of 60."
DENIED = "Let's call the number x. According to the problem, 3x = 27. It is not 8 but 9."
ROWS: list[tuple[Any, ...]] = [
    (BOXES, "\\boxed{120}", 1),
    (BOXES, "There are 120 apples.", 1),
    (BOXES, "\\boxed{12}", 0),
    (BOXES, "\\boxed{10}", 0),
    (BOXES, BOXES, 1),
    (COST, "\\boxed{14}", 1),
    (COST, "\\boxed{7}", 0),
    (COST, "\\boxed{2}", 0),
    (AREA, "36", 1),
    (AREA, "36 cm^2", 1),
    (AREA, "6", 0),
    (AREA, "24 cm", 0),
    (WAYS, "1/676", 1),
    (WAYS, "676", 0),
    (NUMBER, "9", 1),
    (NUMBER, "x = 9", 1),
    (NUMBER, "27", 0),
    (SEVERAL, "7", None),
    (SEVERAL, "", None),
    (BOUNDED, "20", None),
    (NAME, "Mary", None),
    (PART, "60", None),
    (DENIED, "8", None),
    ("Let x be it. x = 5. So the answer is 5.", "5", 1),
    ("Half of 120 is 60, so Bob has 60 apples.", "60", 1),
    ("Half of 120 is 60, so Bob has 60 apples.", "120", 0),
    (["4", "the number of cats is 4. It is 4 since there were so many of them."], "4", 1),
    ("12", "The answer is 12. Wait, no, it is 13.", 0),
    ("12", "The answer is 13. Wait, no, it is 12.", 1),
    ("12", "I doubt that it is 12.", 0),
    ("12", "It is unlikely to be 12.", 0),
    ("12", "The wrong answer is 12.", 0),
    ("12", "The answer is 12.", 1),
]
