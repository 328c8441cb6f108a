"""The tables of the page Fleet."""

from remit.console.pages.page import Page, PageWrite
from remit.core.acts import Act
from remit_fleet.pages.fleet import OrderBody, order_task, read_fleet

PAGES = (Page("/r/{repository}/fleet", "fleet", "Fleet", "fleet.html", read_fleet),)
WRITES = (PageWrite("/r/{repository}/fleet/orders", OrderBody, order_task, Act.ORDER_TASK),)
NAVIGATION = (("fleet", "Fleet", "workflow", "f", "fleet"),)
