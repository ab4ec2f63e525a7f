"""Leave out where a place lies: New York City, USA; Mount Everest in Nepal; Stockholm, Sweden.

A single name may be that of several places, as in "Paris, Texas", so a city keeps its name only
with its own country. Names that say what they are, as those of mounts and towers, are told apart.
"""

import re
from functools import cache

MAX_TEXT_LENGTH = 300  # characters of an answer that names a place
# Countries, and states of the United States, with their well-known cities.
_CITIES = """
Afghanistan: Kabul
Algeria: Algiers
Argentina: Buenos Aires, Córdoba, Rosario
Armenia: Yerevan
Australia: Canberra, Sydney, Melbourne, Brisbane, Perth, Adelaide, Hobart, Darwin
Austria: Vienna, Salzburg, Graz, Linz, Innsbruck
Azerbaijan: Baku
Bangladesh: Dhaka
Belarus: Minsk
Belgium: Brussels, Antwerp, Ghent, Bruges
Bolivia: Sucre, La Paz
Brazil: Brasília, Brasilia, São Paulo, Sao Paulo, Rio de Janeiro, Salvador
Bulgaria: Sofia
Cambodia: Phnom Penh
Canada: Ottawa, Toronto, Montreal, Vancouver, Calgary, Edmonton, Quebec City
Chile: Santiago, Valparaíso
China: Beijing, Shanghai, Guangzhou, Shenzhen, Wuhan, Nanjing, Xi'an, Chengdu, Hong Kong
Colombia: Bogotá, Bogota, Medellín, Medellin, Cali
Croatia: Zagreb, Dubrovnik
Cuba: Havana
Cyprus: Nicosia
Czech Republic: Prague, Brno
Denmark: Copenhagen, Aarhus
Ecuador: Quito
Egypt: Cairo, Alexandria
England: London, Manchester, Liverpool, Leeds, Bristol
Estonia: Tallinn
Ethiopia: Addis Ababa
Finland: Helsinki
France: Paris, Lyon, Marseille, Nice, Bordeaux, Toulouse, Strasbourg
Germany: Berlin, Munich, Hamburg, Cologne, Frankfurt, Leipzig, Dresden, Bonn
Ghana: Accra
Greece: Athens, Thessaloniki
Hungary: Budapest
Iceland: Reykjavik, Reykjavík
India: New Delhi, Delhi, Mumbai, Kolkata, Chennai, Bangalore, Agra
Indonesia: Jakarta
Iran: Tehran
Iraq: Baghdad
Ireland: Dublin, Cork, Galway
Israel: Jerusalem, Tel Aviv
Italy: Rome, Milan, Florence, Venice, Naples, Turin, Pisa, Bologna, Genoa
Jamaica: Kingston
Japan: Tokyo, Kyoto, Osaka, Hiroshima, Nagasaki, Yokohama, Sapporo, Nagoya
Jordan: Amman
Kenya: Nairobi
Latvia: Riga
Lebanon: Beirut
Lithuania: Vilnius
Malaysia: Kuala Lumpur
Mexico: Mexico City, Guadalajara, Monterrey, Cancún
Mongolia: Ulaanbaatar
Morocco: Rabat, Casablanca, Marrakesh
Myanmar: Naypyidaw, Yangon
Nepal: Kathmandu
Netherlands: Amsterdam, Rotterdam, The Hague, Utrecht
New Zealand: Wellington, Auckland, Christchurch
Nigeria: Abuja, Lagos
Norway: Oslo, Bergen, Trondheim
Pakistan: Islamabad, Karachi, Lahore
Peru: Lima, Cusco
Philippines: Manila
Poland: Warsaw, Kraków, Krakow, Gdańsk
Portugal: Lisbon, Porto
Qatar: Doha
Romania: Bucharest
Russia: Moscow, Saint Petersburg, Vladivostok
Saudi Arabia: Riyadh, Mecca, Medina
Scotland: Edinburgh, Glasgow, Aberdeen
Senegal: Dakar
Serbia: Belgrade
Slovakia: Bratislava
Slovenia: Ljubljana
South Africa: Pretoria, Cape Town, Johannesburg, Durban
South Korea: Seoul, Busan
Spain: Madrid, Barcelona, Seville, Valencia, Bilbao, Granada
Sri Lanka: Colombo
Sweden: Stockholm, Gothenburg, Malmö, Uppsala
Switzerland: Bern, Zurich, Zürich, Geneva, Basel, Lausanne
Syria: Damascus
Tanzania: Dodoma, Dar es Salaam
Thailand: Bangkok
Tunisia: Tunis
Turkey: Ankara, Istanbul
Uganda: Kampala
Ukraine: Kyiv, Kiev, Odesa, Lviv
United Arab Emirates: Abu Dhabi, Dubai
United Kingdom: London, Edinburgh, Glasgow, Cardiff, Belfast, Manchester, Liverpool, Oxford
United States: Washington, New York, Los Angeles, Chicago, Boston, San Francisco, Philadelphia,\
 Seattle, Houston, Dallas, Atlanta, Miami, Detroit, Denver, New Orleans, Las Vegas
Uruguay: Montevideo
Venezuela: Caracas
Vietnam: Hanoi, Ho Chi Minh City
Wales: Cardiff, Swansea
Zambia: Lusaka
Zimbabwe: Harare
Arizona: Phoenix, Tucson
California: Los Angeles, San Francisco, San Diego, Sacramento, Hollywood, Berkeley, Oakland
Colorado: Denver
Florida: Miami, Orlando, Tampa
Georgia: Atlanta, Savannah, Tbilisi
Hawaii: Honolulu
Illinois: Chicago
Louisiana: New Orleans
Maryland: Baltimore
Massachusetts: Boston
Michigan: Detroit
Minnesota: Minneapolis
Missouri: St. Louis, Saint Louis
Nevada: Las Vegas
New York: New York, Buffalo, Brooklyn
Ohio: Cleveland, Cincinnati
Oregon: Portland
Pennsylvania: Philadelphia, Pittsburgh
Tennessee: Memphis, Nashville
Texas: Houston, Dallas, Austin, San Antonio
Utah: Salt Lake City
Washington: Seattle
"""
_STATES = """
Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware Florida Georgia Hawaii
Idaho Illinois Indiana Iowa Kansas Kentucky Louisiana Maine Maryland Massachusetts Michigan
Minnesota Mississippi Missouri Montana Nebraska Nevada New_Hampshire New_Jersey New_Mexico New_York
North_Carolina North_Dakota Ohio Oklahoma Oregon Pennsylvania Rhode_Island South_Carolina
South_Dakota Tennessee Texas Utah Vermont Virginia Washington West_Virginia Wisconsin Wyoming
NY CA MA IL TX FL DC PA
"""
_REGIONS = """
Europe Asia Africa South_America North_America Oceania Antarctica Central_America Latin_America
Middle_East Himalayas Himalaya Alps Andes Rocky_Mountains Scandinavia Caribbean Tibet Siberia Sahara
Bavaria Tuscany Sicily Crete Greenland Manhattan Ontario Quebec
"""
_SHORT_NAMES = {
    "USA": "United States",
    "US": "United States",
    "U.S.": "United States",
    "U.S.A.": "United States",
    "United States of America": "United States",
    "America": "United States",
    "UK": "United Kingdom",
    "U.K.": "United Kingdom",
    "Great Britain": "United Kingdom",
    "Czechia": "Czech Republic",
    "Holland": "Netherlands",
    "UAE": "United Arab Emirates",
}
# Words that say what kind of thing a name is, before or behind the rest of the name.
_KIND_BEFORE = r"(?:The\s)?(?:Mount|Lake|River|Cape|Fort|University\sof|Gulf\sof|Bay\sof)\s"
_KINDS = (
    "City|River|Lake|Mountains?|Ocean|Sea|Desert|Falls|Canyon|Glacier"
    "|Volcano|Islands?|Bay|Peninsula"
    "|Forest|Valley|Tower|Bridge|Museum|Palace|Castle|Cathedral|Basilica|Church|Abbey|Temple|Mosque"
    "|Stadium|University|College|Institute|Library|Park|Zoo|Airport|Canal|Dam|Square|Street|Wall"
    "|Opera\\sHouse|Theatre|Theater|Observatory|Laboratory|Hospital|Monument|Statue|Barrier\\sReef"
)
_NAMED_KIND = re.compile(rf"{_KIND_BEFORE}\w.*|\w.*\s(?:{_KINDS})|Great\s\w.*|Mt\.?\s\w.*")
_BOUNDARY = r"(?=\s?[,.!)]|\s?$|\s(?:is|are|was|were|has|had)\b)"
_MAX_PLACES = 3  # that follow each other: Paris, France, Europe


@cache
def _countries_by_city() -> dict[str, set[str]]:
    countries: dict[str, set[str]] = {}
    for line in _CITIES.strip().splitlines():
        country, _, cities = line.partition(": ")
        for city in cities.split(", "):
            countries.setdefault(city.strip(), set()).add(country)
    return countries


@cache
def _countries() -> dict[str, str]:
    """Return the countries by all of their names."""
    names = {country for countries in _countries_by_city().values() for country in countries}
    return {**{name: name for name in names}, **_SHORT_NAMES}


@cache
def _place_behind() -> re.Pattern:
    others = [name.replace("_", " ") for name in (*_STATES.split(), *_REGIONS.split())]
    names = sorted({*_countries(), *_countries_by_city(), *others}, key=len, reverse=True)
    place = "|".join(map(re.escape, names))
    return re.compile(
        r"(?:,?\s(?:which\s|that\s)?(?:(?:is|lies|stands|is\slocated)\s)?"
        r"(?:in|on|near\sthe\scity\sof)\s|,\s|\s\()"
        rf"(?:the\s)?(?:(?:north|south|east|west|central)(?:ern)?\s)?"
        rf"(?P<place>{place})\)?{_BOUNDARY}"
    )


def is_same_country(text: str, reference: str) -> bool:
    """Tell whether both are names of one country, such as USA and United States."""
    names = [re.sub(r"^[Tt]he\s", "", name.strip(" .!*")) for name in (text, reference)]
    found = [_SHORT_NAMES.get(name, name) for name in names]
    return found[0] == found[1] and found[0] in _countries()


def without_place(text: str, reference: str) -> str:
    """Leave out the places behind the reference that say where it lies."""
    name = re.sub(r"^[Tt]he\s", "", reference.strip())
    start = text.casefold().find(name.casefold())
    if start < 0 or len(text) > MAX_TEXT_LENGTH:
        return text
    end = start + len(name)
    rest = text[end:]
    for _ in range(_MAX_PLACES):
        behind = _place_behind().match(rest)
        if behind is None or not _lies_in(name, behind["place"]):
            break
        rest = rest[behind.end() :]
    return text[:end] + rest


def _lies_in(name: str, place: str) -> bool:
    """Tell whether a thing of this name may lie there, so that the place changes nothing."""
    country = _countries().get(place)
    if _NAMED_KIND.fullmatch(name):
        is_another_city = name.endswith("City") and place in _countries_by_city()
        return not is_another_city or place == name.removesuffix(" City")
    if country is None:
        return False
    return country in _countries_by_city().get(name, ())
