"""Boxes in the words of people: what sentences say, deny or leave open."""

from tests.rewards.odd_answers.grouping import rows

ROWS = [
    *rows(
        {"box": [100, 50, 300, 250], "width": 1000, "height": 500},
        "Where?",
        right=[
            '{"box_2d": [100, 100, 500, 300]}',
            '[{"box_2d": [100, 100, 500, 300], "label": "dog"}]',
            '```json\n[{"box_2d": [100, 100, 500, 300], "label": "dog"}]\n```',
            "[100,50,300,250]",
        ],
        wrong=[
            '{"box_2d": [100, 50, 300, 250]}',
            '{"bbox_2d": [100,100,500,300]}',
            "[50,100,250,300]",
            "[0,0,1000,500]",
        ],
        options={"iou_threshold": 0.9},
    ),
]
