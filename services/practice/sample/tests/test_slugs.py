import unittest

from sundry.slugs import slugify, unique_slug


class Slugify(unittest.TestCase):
    def test_words_are_joined(self):
        self.assertEqual(slugify("  Opening hours,  winter "), "opening-hours-winter")

    def test_another_separator(self):
        self.assertEqual(slugify("Opening hours", "_"), "opening_hours")

    def test_nothing_is_left_of_signs(self):
        self.assertEqual(slugify("?!"), "")


class UniqueSlug(unittest.TestCase):
    def test_a_free_slug_stays(self):
        self.assertEqual(unique_slug("News", set()), "news")

    def test_a_taken_one_gets_the_next_number(self):
        self.assertEqual(unique_slug("News", {"news", "news-2"}), "news-3")
