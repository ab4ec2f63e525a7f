"""Published data with published results, for comparison with ours."""

# K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C: four observers,
# twelve units, 0 = not decided.
KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]

# J. L. Fleiss, Psychological Bulletin 76 (1971), Table 1: 30 psychiatric patients, six diagnoses
# each, five possible diagnoses.
FLEISS = [
    "444444",
    "222555",
    "233335",
    "555555",
    "222444",
    "113333",
    "333355",
    "113334",
    "114444",
    "555555",
    "144444",
    "124444",
    "222333",
    "144444",
    "224445",
    "333335",
    "111455",
    "111112",
    "224444",
    "133555",
    "555555",
    "244444",
    "222455",
    "114444",
    "144445",
    "222224",
    "111155",
    "224444",
    "133333",
    "555555",
]

# A. P. Dawid and A. M. Skene, Applied Statistics 28 (1979), Table 1: 45 patients, five
# anaesthetists; the first judged three times.
ANAESTHETISTS = [
    "1111111",
    "3334334",
    "1122122",
    "2223121",
    "2223222",
    "2223322",
    "1222111",
    "3333433",
    "2222223",
    "2322223",
    "4444444",
    "2223343",
    "1111111",
    "2223212",
    "1211111",
    "1112111",
    "1111111",
    "1111111",
    "2222221",
    "2221322",
    "2222222",
    "2222221",
    "2223222",
    "2212222",
    "1111111",
    "1111111",
    "2322222",
    "1111111",
    "1111111",
    "1121121",
    "1111111",
    "3333233",
    "1111111",
    "2222222",
    "2223232",
    "4334343",
    "2212232",
    "2323233",
    "3333432",
    "1111111",
    "1111111",
    "1212111",
    "2322222",
    "1211111",
    "2222222",
]
OBSERVER_OF_COLUMN = [0, 0, 0, 1, 2, 3, 4]

# A. Agresti, Categorical Data Analysis (1990), section 10.6: games of the American League East in
# 1987, row beat column.
TEAMS = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
BASEBALL = [
    [0, 7, 9, 7, 7, 9, 11],
    [6, 0, 7, 5, 11, 9, 9],
    [4, 6, 0, 7, 7, 8, 12],
    [6, 8, 6, 0, 6, 7, 10],
    [6, 2, 6, 7, 0, 7, 12],
    [4, 4, 5, 6, 6, 0, 6],
    [2, 4, 1, 3, 1, 7, 0],
]
