"""What happens when a lease expires: one handler for each kind of row, called by the sweep.

A handler is the `expire` of the kind's queryset:

    groups              are freed, and the failed attempt is counted
    slots               wait for another rater, or are closed where their group no longer waits; the
                        last holder's rating is accepted until somebody else claims the slot
    everything else     stays as it is until the next claim: answers in chats, rescored groups, runs
                        (by a trainer), imports of tasks and of models, previews of chat
                        templates, removals of models, weight orders, trials, regression checks

No worker waits for the sweep: claims of all but slots take rows with expired leases themselves, and
the refiner also handles those of slots. The claim that takes a row over raises its fence and counts
the attempt. It ends work that has used up its attempts: `end_if_worn_out` of the model.
"""

from django.apps import apps

from apps.leases.lease import Lease


def list_lease_models() -> list[type[Lease]]:
    """Return the models whose rows are leased."""
    return [model for model in apps.get_models() if issubclass(model, Lease)]


def expire_all() -> dict[str, int]:
    """Handle the expired leases of all kinds; return how many were handled, by model name."""
    return {model.__name__.lower(): model.objects.expire() for model in list_lease_models()}
