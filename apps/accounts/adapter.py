"""Accounts are made by administrators: nobody signs up by themselves."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class InviteOnlyAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
