"""Tests of gymbridge."""
