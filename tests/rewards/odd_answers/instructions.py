"""Instructions: the task's answer, a reply, its reward; options and prompt."""

from typing import Any

ROWS: list[tuple[Any, ...]] = [
    ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}, "No commas here.", 1),
    ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}, "Yes, here.", 0),
    ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}, "", 0),
    ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}, "<think>a, b</think>ab", 1),
    (
        {"instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": ["rain", "sun"]}]},
        "Rain and SUN.",
        1,
    ),
    (
        {"instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": ["rain", "sun"]}]},
        "Rain.",
        0,
    ),
    (
        {
            "instruction_id_list": ["keywords:forbidden_words"],
            "kwargs": [{"forbidden_words": ["art"]}],
        },
        "A party.",
        1,
    ),
    (
        {
            "instruction_id_list": ["keywords:forbidden_words"],
            "kwargs": [{"forbidden_words": ["art"]}],
        },
        "The Art.",
        0,
    ),
    (
        {
            "instruction_id_list": ["keywords:frequency"],
            "kwargs": [{"keyword": "a b", "frequency": 2, "relation": "at least"}],
        },
        "a b, A B",
        1,
    ),
    (
        {
            "instruction_id_list": ["keywords:frequency"],
            "kwargs": [{"keyword": "cat", "frequency": 2, "relation": "less than"}],
        },
        "cat cat",
        0,
    ),
    (
        {
            "instruction_id_list": ["keywords:frequency"],
            "kwargs": [{"keyword": "cat", "frequency": 2, "relation": "less than"}],
        },
        "category cat",
        1,
    ),
    (
        {
            "instruction_id_list": ["keywords:letter_frequency"],
            "kwargs": [{"letter": "e", "let_frequency": 3, "let_relation": "at least"}],
        },
        "Eeel",
        1,
    ),
    (
        {
            "instruction_id_list": ["keywords:letter_frequency"],
            "kwargs": [{"letter": "!", "let_frequency": 1, "let_relation": "less than"}],
        },
        "a!",
        0,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_sentences"],
            "kwargs": [{"num_sentences": 3, "relation": "at least"}],
        },
        "One. Two! Three?",
        1,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_sentences"],
            "kwargs": [{"num_sentences": 3, "relation": "at least"}],
        },
        "Mr. Smith has 3.5 cats. He likes e.g. tea.",
        0,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_sentences"],
            "kwargs": [{"num_sentences": 3, "relation": "less than"}],
        },
        "Mr. Smith has 3.5 cats. He likes e.g. tea.",
        1,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_sentences"],
            "kwargs": [{"num_sentences": 2, "relation": "at least"}],
        },
        "你好。再见！",
        1,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_words"],
            "kwargs": [{"num_words": 3, "relation": "at least"}],
        },
        "one two three",
        1,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_words"],
            "kwargs": [{"num_words": 3, "relation": "less than"}],
        },
        "one two three",
        0,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_paragraphs"],
            "kwargs": [{"num_paragraphs": 2}],
        },
        "a\n***\nb",
        1,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_paragraphs"],
            "kwargs": [{"num_paragraphs": 2}],
        },
        "a\n\nb",
        0,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_paragraphs"],
            "kwargs": [{"num_paragraphs": 2}],
        },
        "***\na\n***\nb\n***",
        1,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:number_paragraphs"],
            "kwargs": [{"num_paragraphs": 3}],
        },
        "a\n***\n***\nb",
        0,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:nth_paragraph_first_word"],
            "kwargs": [{"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "weather"}],
        },
        "a\n\nWeather, b",
        1,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:nth_paragraph_first_word"],
            "kwargs": [{"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "weather"}],
        },
        "weather\n\nb",
        0,
    ),
    (
        {
            "instruction_id_list": ["length_constraints:nth_paragraph_first_word"],
            "kwargs": [{"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "we"}],
        },
        "a\n\nweather",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_content:number_placeholders"],
            "kwargs": [{"num_placeholders": 2}],
        },
        "[name] [address]",
        1,
    ),
    (
        {
            "instruction_id_list": ["detectable_content:number_placeholders"],
            "kwargs": [{"num_placeholders": 2}],
        },
        "[name]",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_content:number_placeholders"],
            "kwargs": [{"num_placeholders": 1}],
        },
        "[]",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_content:postscript"],
            "kwargs": [{"postscript_marker": "P.S."}],
        },
        "Hi\n\nP.S. Bye",
        1,
    ),
    (
        {
            "instruction_id_list": ["detectable_content:postscript"],
            "kwargs": [{"postscript_marker": "P.P.S"}],
        },
        "Hi\nP.P.S Bye",
        1,
    ),
    (
        {
            "instruction_id_list": ["detectable_content:postscript"],
            "kwargs": [{"postscript_marker": "P.S."}],
        },
        "Hi\nP.S.",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_content:postscript"],
            "kwargs": [{"postscript_marker": "P.S."}],
        },
        "tops. done",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:number_bullet_lists"],
            "kwargs": [{"num_bullets": 2}],
        },
        "* a\n* b",
        1,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:number_bullet_lists"],
            "kwargs": [{"num_bullets": 2}],
        },
        "- a\n- b\n- c",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:number_bullet_lists"],
            "kwargs": [{"num_bullets": 2}],
        },
        "**bold**\n* a\n- b",
        1,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:number_bullet_lists"],
            "kwargs": [{"num_bullets": 1}],
        },
        "---\n* a",
        1,
    ),
    (
        {"instruction_id_list": ["detectable_format:constrained_response"], "kwargs": [{}]},
        "My answer is yes.",
        1,
    ),
    (
        {"instruction_id_list": ["detectable_format:constrained_response"], "kwargs": [{}]},
        "My answer is yes. My answer is no.",
        0,
    ),
    ({"instruction_id_list": ["detectable_format:constrained_response"], "kwargs": [{}]}, "Yes", 0),
    (
        {
            "instruction_id_list": ["detectable_format:number_highlighted_sections"],
            "kwargs": [{"num_highlights": 2}],
        },
        "*a* **b**",
        1,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:number_highlighted_sections"],
            "kwargs": [{"num_highlights": 2}],
        },
        "*a*",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:number_highlighted_sections"],
            "kwargs": [{"num_highlights": 1}],
        },
        "* a\n* b",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:multiple_sections"],
            "kwargs": [{"section_spliter": "SECTION", "num_sections": 2}],
        },
        "SECTION 1\na\nSECTION 2\nb",
        1,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:multiple_sections"],
            "kwargs": [{"section_spliter": "SECTION", "num_sections": 2}],
        },
        "SECTION 1\na",
        0,
    ),
    (
        {
            "instruction_id_list": ["detectable_format:multiple_sections"],
            "kwargs": [{"section_spliter": "Section", "num_sections": 2}],
        },
        "## Section 1\na\n**Section 2**\nb",
        1,
    ),
    ({"instruction_id_list": ["detectable_format:json_format"], "kwargs": [{}]}, '{"a": 1}', 1),
    (
        {"instruction_id_list": ["detectable_format:json_format"], "kwargs": [{}]},
        '```json\n{"a": 1}\n```',
        1,
    ),
    (
        {"instruction_id_list": ["detectable_format:json_format"], "kwargs": [{}]},
        'Here: {"a": 1}',
        0,
    ),
    ({"instruction_id_list": ["detectable_format:json_format"], "kwargs": [{}]}, "{a: 1}", 0),
    ({"instruction_id_list": ["detectable_format:title"], "kwargs": [{}]}, "<<Joy>>\nx", 1),
    ({"instruction_id_list": ["detectable_format:title"], "kwargs": [{}]}, "<Joy>", 0),
    ({"instruction_id_list": ["detectable_format:title"], "kwargs": [{}]}, "<< >>", 0),
    ({"instruction_id_list": ["combination:two_responses"], "kwargs": [{}]}, "a\n******\nb", 1),
    ({"instruction_id_list": ["combination:two_responses"], "kwargs": [{}]}, "a\n******\na", 0),
    ({"instruction_id_list": ["combination:two_responses"], "kwargs": [{}]}, "a", 0),
    ({"instruction_id_list": ["combination:two_responses"], "kwargs": [{}]}, "a******b******c", 0),
    (
        {
            "instruction_id_list": ["combination:repeat_prompt"],
            "kwargs": [{"prompt_to_repeat": "Say hi."}],
        },
        "Say hi.\nHi",
        1,
    ),
    (
        {
            "instruction_id_list": ["combination:repeat_prompt"],
            "kwargs": [{"prompt_to_repeat": "Say hi."}],
        },
        "Say hi.",
        0,
    ),
    (
        {
            "instruction_id_list": ["combination:repeat_prompt"],
            "kwargs": [{"prompt_to_repeat": "Say hi."}],
        },
        "Hi. Say hi.",
        0,
    ),
    (
        {
            "instruction_id_list": ["startend:end_checker"],
            "kwargs": [{"end_phrase": "Any other questions?"}],
        },
        "x. Any other questions?",
        1,
    ),
    (
        {
            "instruction_id_list": ["startend:end_checker"],
            "kwargs": [{"end_phrase": "Any other questions?"}],
        },
        "x. Any other questions? No.",
        0,
    ),
    ({"instruction_id_list": ["startend:quotation"], "kwargs": [{}]}, '"x"', 1),
    ({"instruction_id_list": ["startend:quotation"], "kwargs": [{}]}, "x", 0),
    ({"instruction_id_list": ["startend:quotation"], "kwargs": [{}]}, '"', 0),
    (
        {
            "instruction_id_list": ["change_case:capital_word_frequency"],
            "kwargs": [{"capital_frequency": 2, "capital_relation": "at least"}],
        },
        "HI YOU there",
        1,
    ),
    (
        {
            "instruction_id_list": ["change_case:capital_word_frequency"],
            "kwargs": [{"capital_frequency": 2, "capital_relation": "less than"}],
        },
        "HI you",
        1,
    ),
    (
        {"instruction_id_list": ["change_case:english_capital"], "kwargs": [{}]},
        "THE CAT IS IN THE HAT",
        1,
    ),
    ({"instruction_id_list": ["change_case:english_capital"], "kwargs": [{}]}, "The cat", 0),
    (
        {"instruction_id_list": ["change_case:english_lowercase"], "kwargs": [{}]},
        "the cat is in the hat.",
        1,
    ),
    ({"instruction_id_list": ["change_case:english_lowercase"], "kwargs": [{}]}, "The cat", 0),
    (
        {"instruction_id_list": ["change_case:english_capital"], "kwargs": [{}]},
        "LE CHAT EST DANS LA MAISON ET LES",
        0,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "de"}]},
        "Das ist nicht der Hund, und die Katze ist es auch nicht.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "de"}]},
        "This is not the dog and it is not the cat.",
        0,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "fr"}]},
        "Le chat est dans la maison et il dort sur le lit.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "es"}]},
        "El gato está en la casa y no quiere salir por la puerta.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "pt"}]},
        "O gato não está em casa, e os cães estão com uma bola para o menino.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "it"}]},
        "Il gatto non è nella casa, ma gli uccelli sono nel giardino della nonna.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "zh"}]},
        "今天天气很好。",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "ja"}]},
        "今日は天気がいいです。",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "ko"}]},
        "오늘 날씨가 좋습니다.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "ru"}]},
        "Сегодня хорошая погода, и мы были в парке.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "uk"}]},
        "Сьогодні гарна погода, і ми їдемо.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "ar"}]},
        "هذه مدينة جميلة إلى حد ما",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "fa"}]},
        "این یک گربه زیبا است که پنیر می خورد",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "hi"}]},
        "यह एक अच्छा दिन है और मौसम भी अच्छा है।",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "th"}]},
        "วันนี้อากาศดี",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "en"}]},
        "Zyx qwv",
        None,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "vi"}]},
        "Hôm nay trời đẹp và không có mưa, một ngày của tôi.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "sw"}]},
        "Watu wa nchi hii ni wengi sana na wanapenda maji ya bahari.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "pl"}]},
        "To jest dom i nie ma w nim kota.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "fi"}]},
        "Hän on kotona ja se ei ole iso.",
        1,
    ),
    (
        {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "bg"}]},
        "Той е в къщата, а времето е хубаво.",
        1,
    ),
    ({"instruction_id_list": ["nonsense:x"], "kwargs": [{}]}, "a", None),
    ({"instruction_id_list": ["keywords:existence"], "kwargs": [{}]}, "a", None),
    ({}, "a", None),
    (
        {
            "instruction_id_list": ["punctuation:no_comma", "detectable_format:title"],
            "kwargs": [{}, {}],
        },
        "<<a>>",
        1,
    ),
    (
        {
            "instruction_id_list": ["punctuation:no_comma", "detectable_format:title"],
            "kwargs": [{}, {}],
        },
        "a",
        0,
    ),
    (
        {
            "instruction_id_list": ["punctuation:no_comma", "detectable_format:title"],
            "kwargs": [{}, {}],
        },
        "a",
        0.5,
        {"partial": True},
    ),
    (
        {"ground_truth": {"func_name": "validate_word_constraint", "N": 5, "quantifier": "around"}},
        "a b c d",
        1,
    ),
    ({"ground_truth": '{"func_name": "validate_no_commas", "N": null}'}, "a b", 1),
    (
        {"ground_truth": '{"func_name": "verify_keyword_frequency", "word": "cat", "N": 2}'},
        "cat cat cat",
        0,
    ),
    (
        {"ground_truth": ['[{"instruction_id": ["punctuation:no_comma"], "kwargs": [null]}]']},
        "a",
        1,
    ),
]
