"""Units of measure, for the variations: each family's units as exact multiples of one unit of the family."""

from fractions import Fraction

_FAMILIES: dict[str, dict[str, str]] = {
    "length": {
        "millimetre": "1/1000", "centimetre": "1/100", "metre": "1", "kilometre": "1000", "inch": "0.0254",
        "hand": "0.1016", "foot": "0.3048", "yard": "0.9144", "fathom": "1.8288", "rod": "5.0292", "chain": "20.1168",
        "cable": "185.2", "furlong": "201.168", "mile": "1609.344", "nautical_mile": "1852", "league": "4828.032",
    },
    "mass": {
        "gram": "1", "kilogram": "1000", "tonne": "1000000", "grain": "0.06479891", "carat": "0.2",
        "dram": "1.7718451953125", "ounce": "28.349523125", "troy_ounce": "31.1034768", "pound": "453.59237",
        "stone": "6350.29318", "hundredweight": "50802.34544", "short_ton": "907184.74", "long_ton": "1016046.9088",
    },
    "volume": {
        "millilitre": "1", "litre": "1000", "cubic_metre": "1000000", "fluid_ounce": "28.4130625",
        "imperial_pint": "568.26125", "imperial_quart": "1136.5225", "imperial_gallon": "4546.09",
        "teaspoon": "4.92892159375", "tablespoon": "14.78676478125", "us_cup": "236.5882365", "us_pint": "473.176473",
        "us_quart": "946.352946", "us_gallon": "3785.411784",
    },
    "area": {
        "square_inch": "0.00064516", "square_foot": "0.09290304", "square_yard": "0.83612736", "square_metre": "1",
        "are": "100", "rood": "1011.7141056", "acre": "4046.8564224", "hectare": "10000",
        "square_kilometre": "1000000", "square_mile": "2589988.110336",
    },
    "time": {
        "second": "1", "minute": "60", "hour": "3600", "day": "86400", "week": "604800", "fortnight": "1209600",
        "julian_year": "31557600", "decade": "315576000", "century": "3155760000",
    },
    "data": {
        "bit": "1", "byte": "8", "kilobyte": "8000", "kibibyte": "8192", "megabyte": "8000000",
        "mebibyte": "8388608", "gigabyte": "8000000000", "gibibyte": "8589934592", "terabyte": "8000000000000",
        "tebibyte": "8796093022208",
    },
    "energy": {
        "joule": "1", "kilojoule": "1000", "calorie": "4.184", "kilocalorie": "4184", "watt_hour": "3600",
        "kilowatt_hour": "3600000", "british_thermal_unit": "1055.05585262",
    },
    "pressure": {
        "pascal": "1", "kilopascal": "1000", "millibar": "100", "bar": "100000", "torr": "101325/760",
        "atmosphere": "101325",
    },
    "angle": {
        "arc_second": "1/1296000", "arc_minute": "1/21600", "degree": "1/360", "gradian": "1/400", "quadrant": "1/4",
        "turn": "1",
    },
    "speed": {
        "metre_per_second": "1", "kilometre_per_hour": "5/18", "mile_per_hour": "0.44704", "knot": "463/900",
        "foot_per_second": "0.3048",
    },
}  # fmt: skip


def pairs() -> list[tuple[str, str]]:
    """All ordered pairs of different units of one family, family by family."""
    return [(source, goal) for units in _FAMILIES.values() for source in units for goal in units if source != goal]


def factor(source: str, goal: str) -> Fraction | None:
    """How many of `goal` one of `source` is; None when they are no units of one family."""
    for units in _FAMILIES.values():
        if source in units and goal in units:
            return Fraction(units[source]) / Fraction(units[goal])
    return None
