"""Names of units in other languages than English, behind a number: 2 Stunden, 15 кг, 3小时."""

import re
from functools import cache

MAX_TEXT_LENGTH = 20_000  # characters of a text that is read
# The English name, and the names that mean the same, in German, French, Spanish and Portuguese.
_LATIN = """
kilogram: kilogramm kilogrammes kilogramo kilogramos quilogramas
gram: gramm grammes gramo gramos gramas
meter: mètre mètres metro metros metern
kilometer: kilomètre kilomètres kilómetro kilómetros quilômetros kilometern
centimeter: centimètre centimètres centímetro centímetros zentimeter zentimetern
millimeter: millimètre millimètres milímetro milímetros millimetern
hour: stunde stunden heure heures hora horas
minute: minuten minuto minutos
second: sekunde sekunden seconde secondes segundo segundos
day: tag tage tagen jour jours día días dia dias
week: woche wochen semaine semaines semana semanas
liter: litro litros litern
km/h: kilometer_pro_stunde kilomètres_par_heure kilómetros_por_hora km_pro_stunde
m/s: meter_pro_sekunde mètres_par_seconde metros_por_segundo
m^2: quadratmeter quadratmetern
m^3: kubikmeter kubikmetern
cm^2: quadratzentimeter
cm^3: kubikzentimeter
km^2: quadratkilometer
degree: grad degré degrés grado grados graus
dollar: dólar dólares dólars
""".strip().splitlines()
# Names and symbols in scripts of their own. Those with a stroke stand for compound units.
_OTHERS = """
kg: кг килограмм килограмма килограммов 千克 公斤 キログラム 킬로그램
g: г грамм грамма граммов 克 グラム
mg: мг 毫克 ミリグラム
m: м метр метра метров 米 メートル
km: км километр километра километров 千米 公里 キロメートル
cm: см сантиметр сантиметра сантиметров 厘米 センチメートル
mm: мм 毫米 ミリメートル
h: ч час часа часов 小时 小時 時間 시간
min: мин минута минуты минут 分钟 分鐘 分間
s: с сек секунда секунды секунд 秒 秒間
N: Н ньютон ньютона ньютонов 牛 牛顿 ニュートン
J: Дж джоуль джоуля джоулей 焦耳 焦 ジュール
kJ: кДж 千焦
W: Вт ватт 瓦 瓦特 ワット
kW: кВт 千瓦
V: В вольт 伏 伏特 ボルト
A: А ампер 安 安培 アンペア
ohm: Ом 欧姆 オーム
Pa: Па паскаль 帕 帕斯卡 パスカル
kPa: кПа 千帕
Hz: Гц 赫兹 ヘルツ
mol: моль 摩尔 モル
L: л литр литра литров 升 リットル
mL: мл 毫升 ミリリットル
m/s: м/с 米/秒 米每秒
m/s^2: м/с² м/с^2 米/秒² 米每二次方秒 米/秒^2
km/h: км/ч 千米/时 千米/小时 公里/小时 千米每小时 公里每小时
m^2: 平方米 平方メートル м² кв.м
cm^2: 平方厘米 平方センチメートル см²
km^2: 平方千米 平方公里 км²
m^3: 立方米 立方メートル м³
cm^3: 立方厘米 立方センチメートル см³
day: 天 日間 день дня дней
week: 周 星期 週間 неделя недели недель
g/mol: г/моль 克/摩尔
kg/m^3: кг/м³ кг/м^3
celsius: 摄氏度 градус_Цельсия градуса_Цельсия градусов_Цельсия
degree: градус градуса градусов 度
""".strip().splitlines()


_SQUARED = re.compile(r"(?<=meter)\s(?:carr[ée]s?|cuadrados?|quadrados?)(?!\w)", re.I)
_CUBED = re.compile(r"(?<=meter)\s(?:cubes?|c[úu]bicos?)(?!\w)", re.I)
# Between Chinese or Japanese words and a number, or a unit and such words.
_CJK = r"[\u3040-\u30ff\u4e00-\u9fff]"
_APART = re.compile(rf"(?<={_CJK})(?=[-\d])|(?<=[A-Za-z²³°Ω%])(?={_CJK})")


@cache
def _read_table(latin: bool) -> tuple[re.Pattern, dict[str, str]]:
    """Return what finds the names behind a number, and the English name of each."""
    english: dict[str, str] = {}
    for line in _LATIN if latin else _OTHERS:
        name, _, foreign_names = line.partition(": ")
        english |= {word.replace("_", " "): name for word in foreign_names.split()}
    names = "|".join(map(re.escape, sorted(english, key=len, reverse=True)))
    behind = r"(?![^\W_])" if latin else r"(?![а-яёА-ЯЁA-Za-z/^²³\d])"
    flags = re.I if latin else 0
    return re.compile(rf"(?<=\d)\s?({names}){behind}", flags), english


def in_english(text: str) -> str:
    """Write names in Latin letters, behind a number, in English."""
    names, english = _read_table(True)
    text = names.sub(lambda match: f" {english[match[1].lower()]}", text)
    return _CUBED.sub("^3", _SQUARED.sub("^2", text))


def in_symbols(text: str) -> str:
    """Write names of all scripts, behind a number, in English or as symbols."""
    if len(text) > MAX_TEXT_LENGTH:
        return text
    if text.isascii():
        return in_english(text)
    names, symbols = _read_table(False)
    text = _APART.sub(" ", text)
    return names.sub(lambda match: f" {symbols[match[1]]}", in_english(text))
